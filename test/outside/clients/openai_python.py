"""Tests of the official Python client, run by `openai-python.test.ts`.

SLUICE_URL and SLUICE_KEY are the service's URL and a key. SLUICE_SPENT_KEY allows no requests, and
SLUICE_ELSEWHERE_KEY allows only a model that does not exist. SLUICE_CONTROL is the URL of actions that clients cannot
perform: fill the queue of the scripted model (`/fill`), release it (`/release`), kill an engine (`/kill`), wait for
free slots (`/slots-free`), advance the clock of the limits (`/wait-100-ms`), and create a key that allows one request
per 100 ms (`/brief-key`).
"""

import asyncio
import json
import os
import unittest
import urllib.request
from typing import Literal

import openai
from pydantic import BaseModel

URL = os.environ["SLUICE_URL"]
KEY = os.environ["SLUICE_KEY"]
SPENT_KEY = os.environ["SLUICE_SPENT_KEY"]
ELSEWHERE_KEY = os.environ["SLUICE_ELSEWHERE_KEY"]
CONTROL = os.environ["SLUICE_CONTROL"]
ONE_WORD = json.loads(os.environ["SLUICE_ONE_WORD"])
REAL = os.environ.get("SLUICE_REAL_MODEL")
SCRIPTED = "test/scripted"
KILLABLE = "test/killable"

# Longer than any test, in milliseconds.
FOREVER = 1_000_000


class City(BaseModel):
    size: Literal["small", "large"]
    capital: bool


def user_message(content: str | dict) -> list[dict]:
    """Returns a user message with this text, or with a directive to the scripted engine."""
    return [{"role": "user", "content": content if isinstance(content, str) else "scripted:" + json.dumps(content)}]


def control(action: str) -> str:
    return urllib.request.urlopen(f"{CONTROL}/{action}").read().decode()


def options(**more) -> dict:
    return {"base_url": f"{URL}/v1", "api_key": KEY, "max_retries": 0, "timeout": 60, **more}


# Requests that are refused, with the class, status, code and param of the error.
REFUSALS = [
    ({"temperature": 3}, openai.BadRequestError, 400, "invalid_value", "temperature"),
    ({"stop": 5}, openai.BadRequestError, 400, "invalid_type", "stop"),
    ({"extra_body": {"top_q": 1}}, openai.BadRequestError, 400, "unsupported_parameter", "top_q"),
    ({"messages": user_message("word " * 5000)}, openai.BadRequestError, 400, "context_length_exceeded", "messages"),
    ({"model": "acme/missing"}, openai.NotFoundError, 404, "model_not_found", "model"),
    ({"messages": user_message("x" * 70_000)}, openai.APIStatusError, 413, "request_too_large", None),
    ({"messages": user_message({"error": "internal_error"})}, openai.InternalServerError, 500, "internal_error", None),
    ({"messages": user_message({"error": "engine_unavailable"})}, openai.InternalServerError, 503, "engine_unavailable", None),
]

CHAT = {"model": SCRIPTED, "messages": user_message({})}
LONG = {"model": SCRIPTED, "messages": user_message({"tokens": 1000, "tokenMs": 5}), "stream": True}
STUCK = {"model": SCRIPTED, "messages": user_message({"prefillMs": FOREVER})}
BROKEN = {"model": SCRIPTED, "messages": user_message({"tokens": 10, "errorAfter": 3}), "stream": True}
FORCED = {"model": REAL, "temperature": 0, "logit_bias": ONE_WORD}
COLORS = {**FORCED, "messages": user_message("Name three colors."), "max_tokens": 8}
FRANCE = {**FORCED, "prompt": "The capital of France is", "max_tokens": 4}
PARIS = {"model": REAL, "messages": user_message("Describe Paris as JSON."), "temperature": 0, "response_format": City}
PAINT = {
    "model": REAL,
    "messages": user_message("Describe Paris."),
    "tools": [openai.pydantic_function_tool(City)],
    "tool_choice": {"type": "function", "function": {"name": "City"}},
    "parallel_tool_calls": False,
    "max_tokens": 100,
}
WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}


class Checks:
    """Assertions for both clients."""

    def check_chat(self, completion) -> None:
        self.assertEqual(completion.choices[0].message.content, " the" * 8)
        self.assertEqual(completion.choices[0].finish_reason, "length")
        self.assertEqual(completion.usage.completion_tokens, 8)
        self.assertEqual(completion.usage.total_tokens, completion.usage.prompt_tokens + 8)
        self.assertRegex(completion._request_id, r"^[0-9a-f-]{36}$")

    def check_stream(self, chunks: list, whole) -> None:
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual([chunk.usage is None for chunk in chunks], [True] * (len(chunks) - 1) + [False])
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, 8)

    def check_models(self, listed: list, one) -> None:
        self.assertEqual([model.id for model in listed], [SCRIPTED, KILLABLE, *([REAL] if REAL else [])])
        self.assertEqual((one.id, one.object, one.owned_by), (SCRIPTED, "model", "test"))
        self.assertEqual(one.context_length, 4096)
        self.assertEqual(one.pricing, {"prompt": "0", "completion": "0"})

    def check_refusal(self, error, kind, status, code, param) -> None:
        self.assertIs(type(error), kind)
        self.assertEqual((error.status_code, error.code, error.param), (status, code, param))
        self.assertRegex(error.request_id, r"^[0-9a-f-]{36}$")
        self.assertEqual("retry-after" in error.response.headers, status == 503)

    def check_limited(self, error, code: str) -> None:
        self.assertIs(type(error), openai.RateLimitError)
        self.assertEqual((error.status_code, error.code, error.type), (429, code, "rate_limit_error"))

    def check_brief(self, error) -> None:
        self.check_limited(error, "requests_per_minute")
        headers = error.response.headers
        self.assertEqual(headers["x-ratelimit-remaining-requests"], "0")
        self.assertEqual(headers["retry-after-ms"], "100")

    def check_broken(self, error, chunks: int) -> None:
        self.assertEqual(chunks, 3)
        self.assertIs(type(error), openai.APIError)
        self.assertEqual((error.code, error.type), ("internal_error", "server_error"))


class Sync(Checks, unittest.TestCase):
    def setUp(self) -> None:
        self.client = openai.OpenAI(**options())
        self.addCleanup(self.client.close)

    @unittest.skipUnless(REAL, "there is no model")
    def test_the_real_model_completes_chats_and_texts(self) -> None:
        whole = self.client.chat.completions.create(**COLORS)
        self.check_chat(whole)
        self.check_stream(list(self.client.chat.completions.create(**COLORS, **WITH_USAGE)), whole)
        text = self.client.completions.create(**FRANCE).choices[0].text
        self.assertEqual(text, " the" * 4)
        streamed = self.client.completions.create(**FRANCE, stream=True)
        self.assertEqual("".join(chunk.choices[0].text for chunk in streamed), text)
        self.assertIsInstance(self.client.chat.completions.parse(**PARIS).choices[0].message.parsed, City)

    @unittest.skipUnless(REAL, "there is no model")
    def test_the_real_model_calls_a_function(self) -> None:
        whole = self.client.chat.completions.parse(**PAINT).choices[0]
        with self.client.chat.completions.stream(**PAINT) as stream:
            streamed = stream.get_final_completion().choices[0]
        for choice in (whole, streamed):
            self.assertEqual(choice.finish_reason, "tool_calls")
            self.assertIsNone(choice.message.content)
            [call] = choice.message.tool_calls
            self.assertEqual(call.function.name, "City")
            self.assertIsInstance(call.function.parsed_arguments, City)
        result = {"role": "tool", "tool_call_id": call.id, "content": "done"}
        messages = [*PAINT["messages"], streamed.message.to_dict(), result]
        again = self.client.chat.completions.create(**{**FORCED, "messages": messages, "max_tokens": 4})
        self.assertEqual(again.choices[0].message.content, " the" * 4)

    def test_models_are_listed_and_retrieved(self) -> None:
        self.check_models(list(self.client.models.list()), self.client.models.retrieve(SCRIPTED))
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("acme/missing")

    def test_leaving_a_stream_frees_the_slot(self) -> None:
        with self.client.chat.completions.create(**LONG) as stream:
            for chunk in stream:
                if chunk.choices[0].delta.content:
                    break
        control("slots-free")

    def test_a_timeout_frees_the_slot(self) -> None:
        with self.assertRaises(openai.APITimeoutError):
            self.client.with_options(timeout=0.2).chat.completions.create(**STUCK)
        control("slots-free")

    def test_refusals_have_their_class_and_code(self) -> None:
        for fields, *expected in REFUSALS:
            for stream in (False, True):
                with self.subTest(expected[2], stream=stream), self.assertRaises(openai.APIStatusError) as caught:
                    self.client.chat.completions.create(**{**CHAT, **fields}, stream=stream)
                self.check_refusal(caught.exception, *expected)

    def test_a_wrong_key_is_an_authentication_error(self) -> None:
        with_wrong_key = self.client.with_options(api_key=f"{KEY}x")
        for call in (lambda: with_wrong_key.chat.completions.create(**CHAT), with_wrong_key.models.list):
            with self.assertRaises(openai.AuthenticationError) as caught:
                call()
            self.check_refusal(caught.exception, openai.AuthenticationError, 401, "invalid_api_key", None)

    def test_an_error_during_the_stream_is_raised(self) -> None:
        chunks = 0
        with self.assertRaises(openai.APIError) as caught:
            for chunk in self.client.chat.completions.create(**BROKEN):
                chunks += bool(chunk.choices[0].delta.content)
        self.check_broken(caught.exception, chunks)

    def test_structured_output_that_is_cut_off_is_an_error(self) -> None:
        with self.assertRaises(openai.LengthFinishReasonError):
            self.client.chat.completions.parse(**CHAT, response_format=City, max_tokens=1)

    def test_a_refused_connection_is_a_connection_error(self) -> None:
        with self.assertRaises(openai.APIConnectionError):
            self.client.with_options(base_url="http://127.0.0.1:1/v1").chat.completions.create(**CHAT)

    def test_a_rate_limit_is_raised_or_retried_until_admitted(self) -> None:
        with openai.OpenAI(**options(api_key=control("brief-key"))) as brief:
            brief.chat.completions.create(**CHAT)
            with self.assertRaises(openai.RateLimitError) as caught:
                brief.chat.completions.create(**CHAT)
            self.check_brief(caught.exception)
            statuses = []

            def on_response(response) -> None:
                statuses.append(response.status_code)
                if response.status_code == 429:
                    control("wait-100-ms")

            http = openai.DefaultHttpxClient(event_hooks={"response": [on_response]})
            with brief.with_options(max_retries=5, http_client=http) as patient:
                patient.chat.completions.create(**CHAT)
            self.assertEqual(statuses, [429, 200])

    def test_insufficient_quota_is_not_retried(self) -> None:
        statuses = []
        http = openai.DefaultHttpxClient(event_hooks={"response": [lambda r: statuses.append(r.status_code)]})
        with openai.OpenAI(**options(api_key=SPENT_KEY, max_retries=2, http_client=http)) as spent:
            with self.assertRaises(openai.RateLimitError) as caught:
                spent.chat.completions.create(**CHAT)
        self.check_limited(caught.exception, "insufficient_quota")
        self.assertEqual(statuses, [429])

    def test_a_model_that_the_key_may_not_use_is_denied(self) -> None:
        other = self.client.with_options(api_key=ELSEWHERE_KEY)
        for call in (lambda: other.chat.completions.create(**CHAT), lambda: other.models.retrieve(SCRIPTED)):
            with self.assertRaises(openai.PermissionDeniedError) as caught:
                call()
            self.check_refusal(caught.exception, openai.PermissionDeniedError, 403, "model_not_allowed", "model")
        self.assertEqual(list(other.models.list()), [])

    def test_retries_if_the_queue_is_full(self) -> None:
        control("fill")
        statuses = []

        def on_response(response) -> None:
            statuses.append(response.status_code)
            if response.status_code == 503:
                control("release")

        self.check_retries(SCRIPTED, statuses, on_response)

    def test_retries_if_the_engine_has_crashed(self) -> None:
        control("kill")
        statuses = []
        self.check_retries(KILLABLE, statuses, lambda response: statuses.append(response.status_code))

    def check_retries(self, model: str, statuses: list[int], on_response) -> None:
        http = openai.DefaultHttpxClient(event_hooks={"response": [on_response]})
        with openai.OpenAI(**options(max_retries=10, http_client=http)) as client:
            completion = client.chat.completions.create(model=model, messages=user_message({"text": "at last"}))
        self.assertEqual(completion.choices[0].message.content, "at last")
        self.assertEqual((statuses[0], statuses[-1]), (503, 200))


class Async(Checks, unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.client = openai.AsyncOpenAI(**options())
        self.addAsyncCleanup(self.client.close)

    @unittest.skipUnless(REAL, "there is no model")
    async def test_the_real_model_completes_chats_and_texts(self) -> None:
        whole = await self.client.chat.completions.create(**COLORS)
        self.check_chat(whole)
        stream = await self.client.chat.completions.create(**COLORS, **WITH_USAGE)
        self.check_stream([chunk async for chunk in stream], whole)
        text = (await self.client.completions.create(**FRANCE)).choices[0].text
        self.assertEqual(text, " the" * 4)
        streamed = await self.client.completions.create(**FRANCE, stream=True)
        self.assertEqual("".join([chunk.choices[0].text async for chunk in streamed]), text)
        parsed = await self.client.chat.completions.parse(**PARIS)
        self.assertIsInstance(parsed.choices[0].message.parsed, City)

    async def test_models_are_listed_and_retrieved(self) -> None:
        listed = [model async for model in self.client.models.list()]
        self.check_models(listed, await self.client.models.retrieve(SCRIPTED))

    async def test_leaving_a_stream_frees_the_slot(self) -> None:
        async with await self.client.chat.completions.create(**LONG) as stream:
            async for chunk in stream:
                if chunk.choices[0].delta.content:
                    break
        await asyncio.to_thread(control, "slots-free")

    async def test_cancelling_a_task_frees_the_slot(self) -> None:
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0.2):
                await self.client.chat.completions.create(**STUCK)
        await asyncio.to_thread(control, "slots-free")

    async def test_a_timeout_frees_the_slot(self) -> None:
        with self.assertRaises(openai.APITimeoutError):
            await self.client.with_options(timeout=0.2).chat.completions.create(**STUCK)
        await asyncio.to_thread(control, "slots-free")

    async def test_refusals_have_their_class_and_code(self) -> None:
        for fields, *expected in REFUSALS:
            for stream in (False, True):
                with self.subTest(expected[2], stream=stream), self.assertRaises(openai.APIStatusError) as caught:
                    await self.client.chat.completions.create(**{**CHAT, **fields}, stream=stream)
                self.check_refusal(caught.exception, *expected)

    async def test_an_error_during_the_stream_is_raised(self) -> None:
        chunks = 0
        with self.assertRaises(openai.APIError) as caught:
            async for chunk in await self.client.chat.completions.create(**BROKEN):
                chunks += bool(chunk.choices[0].delta.content)
        self.check_broken(caught.exception, chunks)

    async def test_rate_limits_and_quotas_are_raised(self) -> None:
        key = await asyncio.to_thread(control, "brief-key")
        async with openai.AsyncOpenAI(**options(api_key=key)) as brief:
            await brief.chat.completions.create(**CHAT)
            with self.assertRaises(openai.RateLimitError) as caught:
                await brief.chat.completions.create(**CHAT)
            self.check_brief(caught.exception)
            await asyncio.to_thread(control, "wait-100-ms")
            await brief.chat.completions.create(**CHAT)
        spent = self.client.with_options(api_key=SPENT_KEY, max_retries=2)
        with self.assertRaises(openai.RateLimitError) as caught:
            await spent.chat.completions.create(**CHAT)
        self.check_limited(caught.exception, "insufficient_quota")

    async def test_retries_if_the_queue_is_full(self) -> None:
        await asyncio.to_thread(control, "fill")
        statuses = []

        async def on_response(response) -> None:
            statuses.append(response.status_code)
            if response.status_code == 503:
                await asyncio.to_thread(control, "release")

        http = openai.DefaultAsyncHttpxClient(event_hooks={"response": [on_response]})
        async with openai.AsyncOpenAI(**options(max_retries=10, http_client=http)) as client:
            completion = await client.chat.completions.create(model=SCRIPTED, messages=user_message({"text": "at last"}))
        self.assertEqual(completion.choices[0].message.content, "at last")
        self.assertEqual((statuses[0], statuses[-1]), (503, 200))


if __name__ == "__main__":
    unittest.main()
