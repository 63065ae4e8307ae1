"""Contracts: does the agent keep its rules when the world breaks?"""
