"""Asking a judge what rules cannot decide: questions and answers on record, and budgets that are never exceeded."""
