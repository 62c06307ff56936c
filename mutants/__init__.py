"""Mutation testing: changes one expression or statement of the product at a time and looks for a test that fails."""
