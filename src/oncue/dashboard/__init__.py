"""The dashboard as it is served: `assets` is built from the folder dashboard of the repository."""
