"""What nodes say to each other, over HTTPS with certificates on both sides."""
