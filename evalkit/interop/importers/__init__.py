"""Importers of other tools' files: each module is a format, and a module more adds one (`evalkit.interop.formats`)."""
