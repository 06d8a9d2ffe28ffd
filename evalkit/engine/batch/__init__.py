"""Batch files: write the requests that are not stored as OpenAI batch lines, and store
the answers to them.

`requests` finds the next round of requests, `files` writes and finds them, and `answers` reads what
came back.
"""
