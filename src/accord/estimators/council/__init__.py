"""Councils: members that are fitted first, what each counts, and what they say of every label."""
