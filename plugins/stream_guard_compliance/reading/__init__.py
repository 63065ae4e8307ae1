"""From a system prompt to readings: which sentence states which sort of rule. No model is asked."""
