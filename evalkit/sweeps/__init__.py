"""Manage sweeps: find finished jobs, resume, and compare the jobs."""
