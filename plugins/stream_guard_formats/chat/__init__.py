"""Formats of chats: lists of messages between a person, a model and its tools."""
