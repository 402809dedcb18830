"""What every OpenAI-compatible API understands."""

from certify.records import ChatRequest, Json, Message, Thinking, Tool, ToolCall

AUTO_CHOICES = ("auto", "none", "required")


def standard_body(request: ChatRequest, model: str) -> dict[str, Json]:
    """The standard fields of a chat completion; `usage` is asked for in streams."""
    body: dict[str, Json] = {
        "model": model,
        "messages": messages(request.messages),
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
    }
    if request.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.seed is not None:
        body["seed"] = request.seed
    if request.stop:
        body["stop"] = list(request.stop)
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.tool_choice:
        body["tool_choice"] = _tool_choice(request.tool_choice)
    if request.schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": request.schema_name or "answer", "strict": True, "schema": request.schema},
        }
    return body


def messages(turns: tuple[Message, ...], reasoning_field: str = "reasoning_content") -> list[Json]:
    """The messages on the wire."""
    return [_message(turn, reasoning_field) for turn in turns]


def template_switch(thinking: Thinking) -> dict[str, Json]:
    """The chat-template switch with both of its keys; nothing when the request says nothing.

    DeepSeek templates read `thinking`, Qwen and GLM templates `enable_thinking`; parsers may decide from either.
    """
    if thinking is Thinking.UNSAID:
        return {}
    on = thinking is Thinking.ON
    return {"chat_template_kwargs": {"thinking": on, "enable_thinking": on}}


def _message(turn: Message, reasoning_field: str) -> dict[str, Json]:
    message: dict[str, Json] = {"role": turn.role, "content": turn.content}
    if turn.tool_calls:
        message["content"] = turn.content or None
        message["tool_calls"] = [_call(call) for call in turn.tool_calls]
    if turn.tool_call_id:
        message["tool_call_id"] = turn.tool_call_id
    if turn.reasoning:
        message[reasoning_field] = turn.reasoning
    return message


def _call(call: ToolCall) -> dict[str, Json]:
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _tool(tool: Tool) -> dict[str, Json]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


def _tool_choice(choice: str) -> Json:
    return choice if choice in AUTO_CHOICES else {"type": "function", "function": {"name": choice}}
