"""From readings to rules of ordinary kinds, in the native form of a policy."""
