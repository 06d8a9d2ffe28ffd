"""What annotators do: tasks, samples of cases to label, label files, sessions and the page."""
