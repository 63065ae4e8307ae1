"""Gates that share a database, under many clients, kills and freezes: do they count as one gate would?"""
