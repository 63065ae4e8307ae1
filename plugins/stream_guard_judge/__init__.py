"""A judge for what no rule can decide: any endpoint that speaks OpenAI's chat completions."""

import stream_guard as sg


@sg.hookimpl
def stream_guard_judge(question: sg.Question) -> sg.Answer | None:
    """Ask the endpoint of the settings. Return None if they name none."""
    if question.settings is None or not question.settings.url:
        return None
    from stream_guard_judge.endpoint import ask  # noqa: PLC0415  # the HTTP client is an extra

    return ask(question)
