import assert from 'node:assert/strict';
import { ContextOverflowError } from '@langchain/core/errors';
import type { AIMessageChunk } from '@langchain/core/messages';
import { ChatOpenAI, OpenAI as LangChainOpenAI } from '@langchain/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateText, Output, streamText } from 'ai';
import OpenAI, { APIConnectionTimeoutError, APIError, APIUserAbortError } from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import type { z } from 'zod';
import { SCRIPTED } from './fixture.ts';

/** A request, in words that every library has. Without a model it goes to the scripted one. */
export interface Call {
  prompt: string;
  model?: string;
  temperature?: number;
  maxTokens?: number;
  logitBias?: Record<string, number>;
  apiKey?: string;
  maxRetries?: number;
  timeoutMs?: number;
  signal?: AbortSignal;
  fetch?: typeof fetch;
}

/** What a library makes of a response. */
export interface Answer {
  text: string;
  /** Undefined if the library does not read reasoning. */
  reasoning: string | undefined;
  calls: { name: string; arguments: unknown }[];
  finishReason: string | undefined;
  promptTokens: number | undefined;
  completionTokens: number | undefined;
  reasoningTokens: number | undefined;
}

/** A library that generates chat completions. */
export interface ChatClient {
  ask: (call: Call) => Promise<Answer>;
  /** Reads a stream to its end, or until `onText` returns false. */
  stream: (call: Call, onText?: (text: string) => unknown) => Promise<Answer>;
  /** Generates the text of a text completion. */
  complete: (call: Call) => Promise<string>;
  /** Generates an object of a schema, which the library parses. */
  describe: (schema: z.ZodType, call: Call) => Promise<unknown>;
  /** The status, code, param and headers of the error of a refused request. */
  refusal: (error: unknown) => Refusal;
  /** Whether the library repeats a request although `x-should-retry` says that this is useless. */
  ignoresShouldRetry: boolean;
  timeout: RegExp | { name: string } | typeof APIConnectionTimeoutError;
  aborted: RegExp | { name: string } | typeof APIUserAbortError;
}

export interface Refusal {
  status: number | undefined;
  code: unknown;
  param: unknown;
  headers: Headers;
}

/** Returns the libraries, as clients of a service. */
export function chatClients(url: string, key: string): Record<string, ChatClient> {
  const baseURL = `${url}/v1`;
  return {
    'openai for Node': openaiForNode(baseURL, key),
    'the AI SDK': aiSdk(baseURL, key),
    LangChain: langChain(baseURL, key),
  };
}

function openaiForNode(baseURL: string, key: string): ChatClient {
  const clientOf = ({ apiKey = key, maxRetries = 0, timeoutMs: timeout, fetch }: Call) =>
    new OpenAI({ baseURL, apiKey, maxRetries, timeout, fetch });
  const bodyOf = ({ prompt, model = SCRIPTED, temperature, maxTokens, logitBias }: Call) => ({
    model,
    messages: [{ role: 'user' as const, content: prompt }],
    temperature,
    max_tokens: maxTokens,
    logit_bias: logitBias,
  });
  const answerOf = ({ choices, usage }: OpenAI.ChatCompletion): Answer => ({
    text: choices[0]?.message.content ?? '',
    reasoning: undefined,
    calls: (choices[0]?.message.tool_calls ?? []).map((call) => {
      assert(call.type === 'function');
      return { name: call.function.name, arguments: JSON.parse(call.function.arguments) as unknown };
    }),
    finishReason: choices[0]?.finish_reason,
    promptTokens: usage?.prompt_tokens,
    completionTokens: usage?.completion_tokens,
    reasoningTokens: usage?.completion_tokens_details?.reasoning_tokens,
  });
  return {
    async ask(call) {
      return answerOf(await clientOf(call).chat.completions.create(bodyOf(call), { signal: call.signal }));
    },
    async stream(call, onText) {
      const body = { ...bodyOf(call), stream_options: { include_usage: true } };
      const stream = clientOf(call).chat.completions.stream(body, { signal: call.signal });
      for await (const { choices } of stream) {
        const text = choices[0]?.delta.content ?? '';
        if (text !== '' && onText?.(text) === false) return LEFT;
      }
      return answerOf(await stream.finalChatCompletion());
    },
    async complete(call) {
      const { messages: _, ...body } = bodyOf(call);
      const { choices } = await clientOf(call).completions.create({ ...body, prompt: call.prompt });
      return choices[0]?.text ?? '';
    },
    async describe(schema, call) {
      const body = { ...bodyOf(call), response_format: zodResponseFormat(schema, 'city') };
      const { choices } = await clientOf(call).chat.completions.parse(body);
      return choices[0]?.message.parsed;
    },
    refusal: openaiRefusal,
    ignoresShouldRetry: false,
    timeout: APIConnectionTimeoutError,
    aborted: APIUserAbortError,
  };
}

function aiSdk(baseURL: string, key: string): ChatClient {
  // Disables warnings about fields that text completions do not have.
  globalThis.AI_SDK_LOG_WARNINGS = false;
  const providerOf = ({ apiKey = key, fetch }: Call) =>
    createOpenAICompatible({
      name: 'sluice',
      baseURL,
      apiKey,
      includeUsage: true,
      supportsStructuredOutputs: true,
      fetch,
    });
  const optionsOf = (call: Call) => ({
    model: providerOf(call)(call.model ?? SCRIPTED),
    prompt: call.prompt,
    temperature: call.temperature,
    maxOutputTokens: call.maxTokens,
    maxRetries: call.maxRetries ?? 0,
    timeout: call.timeoutMs,
    abortSignal: call.signal,
    ...(call.logitBias && { providerOptions: { sluice: { logit_bias: call.logitBias } } }),
  });
  type Result = Pick<
    Awaited<ReturnType<typeof generateText>>,
    'text' | 'reasoningText' | 'toolCalls' | 'finishReason' | 'usage'
  >;
  const answerOf = ({ text, reasoningText, toolCalls, finishReason, usage }: Result): Answer => ({
    text,
    reasoning: reasoningText,
    calls: toolCalls.map(({ toolName, input }) => ({ name: toolName, arguments: input as unknown })),
    finishReason: finishReason.replace('-', '_'),
    promptTokens: usage.inputTokens,
    completionTokens: usage.outputTokens,
    reasoningTokens: usage.outputTokenDetails.reasoningTokens,
  });
  return {
    ask: async (call) => answerOf(await generateText(optionsOf(call))),
    async stream(call, onText) {
      const result = streamText({ ...optionsOf(call), onError() {} });
      for await (const part of result.fullStream) {
        if (part.type === 'error') throw part.error;
        if (part.type === 'abort') throw new DOMException('The stream was aborted.', 'AbortError');
        if (part.type === 'text-delta' && onText?.(part.text) === false) return LEFT;
      }
      const { text, reasoningText, toolCalls, finishReason, usage } = result;
      return answerOf({
        text: await text,
        reasoningText: await reasoningText,
        toolCalls: await toolCalls,
        finishReason: await finishReason,
        usage: await usage,
      });
    },
    async complete(call) {
      // The library formats the prompt as a dialog.
      const model = providerOf(call).completionModel(call.model ?? SCRIPTED);
      return (await generateText({ ...optionsOf(call), model })).text;
    },
    async describe(schema, call) {
      return (await generateText({ ...optionsOf(call), output: Output.object({ schema }) })).output;
    },
    refusal(error) {
      if (!APICallError.isInstance(error)) {
        // An error after the first text is not an error of the request.
        assert.match(JSON.stringify(error) + String(error), /The service failed\. The request ID is/);
        return { status: undefined, code: 'internal_error', param: undefined, headers: new Headers() };
      }
      const { statusCode: status, responseBody, responseHeaders, message, isRetryable } = error;
      const body = JSON.parse(responseBody ?? '{}') as { error: Record<string, unknown> };
      assert.equal(message, body.error['message']);
      assert.equal(isRetryable, (status ?? 0) >= 429);
      return {
        status,
        code: body.error['code'],
        param: body.error['param'],
        headers: new Headers(responseHeaders),
      };
    },
    ignoresShouldRetry: true,
    timeout: { name: 'TimeoutError' },
    aborted: { name: 'AbortError' },
  };
}

function langChain(baseURL: string, key: string): ChatClient {
  const optionsOf = (call: Call) => ({
    model: call.model ?? SCRIPTED,
    apiKey: call.apiKey ?? key,
    maxRetries: call.maxRetries ?? 0,
    temperature: call.temperature,
    maxTokens: call.maxTokens,
    timeout: call.timeoutMs,
    configuration: { baseURL, fetch: call.fetch },
    ...(call.logitBias && { modelKwargs: { logit_bias: call.logitBias } }),
  });
  const answerOf = (message: AIMessageChunk): Answer => ({
    text: message.text,
    reasoning: message.additional_kwargs['reasoning_content'] as string | undefined,
    calls: (message.tool_calls ?? []).map(({ name, args }) => ({ name, arguments: args })),
    finishReason: message.response_metadata['finish_reason'] as string | undefined,
    promptTokens: message.usage_metadata?.input_tokens,
    completionTokens: message.usage_metadata?.output_tokens,
    reasoningTokens: message.usage_metadata?.output_token_details?.reasoning,
  });
  return {
    async ask(call) {
      return answerOf(await new ChatOpenAI(optionsOf(call)).invoke(call.prompt, { signal: call.signal }));
    },
    async stream(call, onText) {
      let message: AIMessageChunk | undefined;
      const stream = await new ChatOpenAI(optionsOf(call)).stream(call.prompt, { signal: call.signal });
      for await (const chunk of stream) {
        message = message?.concat(chunk) ?? chunk;
        if (chunk.text !== '' && onText?.(chunk.text) === false) return LEFT;
      }
      assert.ok(message);
      return answerOf(message);
    },
    complete: (call) => new LangChainOpenAI(optionsOf(call)).invoke(call.prompt),
    describe(schema, call) {
      const options = { name: 'city', method: 'jsonSchema' as const };
      return new ChatOpenAI(optionsOf(call)).withStructuredOutput(schema, options).invoke(call.prompt);
    },
    // LangChain passes the errors of openai on, but wraps one of them.
    refusal(error) {
      const isOverflow = ContextOverflowError.isInstance(error);
      const refusal = openaiRefusal(isOverflow ? error.cause : error);
      assert.equal(isOverflow, refusal.code === 'context_length_exceeded');
      return refusal;
    },
    ignoresShouldRetry: false,
    timeout: { name: 'TimeoutError' },
    aborted: /abort/i,
  };
}

/** What a stream returns that was left before its end. */
const LEFT: Answer = {
  text: '',
  reasoning: undefined,
  calls: [],
  finishReason: undefined,
  promptTokens: undefined,
  completionTokens: undefined,
  reasoningTokens: undefined,
};

function openaiRefusal(error: unknown): Refusal {
  assert.ok(error instanceof APIError, String(error));
  const { status, code, param, headers } = error as APIError<number | undefined, Headers | undefined>;
  return { status, code, param, headers: headers ?? new Headers() };
}
