"""What a process counts about itself, and how it tells Prometheus."""
