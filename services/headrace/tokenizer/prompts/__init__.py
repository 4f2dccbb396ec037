"""Prompts that models are asked with, beside conversations."""
