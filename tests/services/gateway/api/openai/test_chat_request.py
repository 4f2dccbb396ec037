"""Fields of a chat that its template reads."""

from headrace.gateway.api.openai.chat_request import conversation_of
from headrace.gateway.api.openai.schema import ChatBody

DOCUMENTS = [{"title": "T", "text": "t"}]


def test_a_template_gets_the_documents_and_arguments_of_a_request() -> None:
    fields = {"documents": DOCUMENTS, "reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "high"}}
    body = ChatBody.model_validate({"model": "m", "messages": [{"role": "user", "content": "a"}], **fields})
    assert conversation_of(body).template_arguments == {
        "documents": DOCUMENTS,
        "enable_thinking": True,
        "reasoning_effort": "high",
    }
