"""What the tests share: servers on loopback, judges that answer as told, the command line, Chromium."""
