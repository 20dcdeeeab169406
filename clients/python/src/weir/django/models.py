"""No models: Django sends post_migrate to apps that have this module."""
