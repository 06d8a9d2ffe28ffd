"""What every layer uses: hashing, sequences, scales and annotations."""
