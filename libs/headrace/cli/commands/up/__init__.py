"""`headrace up`, and its flags."""
