"""The policy for configs from elsewhere: what they may name, and what the user trusts."""
