"""Importers of other tools' files: each module is a format, which `importer_discovery` finds."""
