/**
 * Returns the name of the program that sends this `User-Agent`: that of one of the `CLIENTS`, or `Unrecognized`. A closed list
 * bounds the rows of usage by client, whatever callers send.
 */
export function clientName(userAgent: string | undefined): string {
  if (userAgent === undefined) return UNRECOGNIZED;
  // The space begins the first product like any other. The slice bounds the cost of a long header.
  const text = ` ${userAgent.slice(0, MAX_CHARACTERS).toLowerCase()}`;
  for (const { name, texts } of CLIENTS) {
    for (const part of texts) if (text.includes(part)) return name;
  }
  return UNRECOGNIZED;
}

/** Programs name themselves at the beginning of the header. */
const MAX_CHARACTERS = 64;

/** All other programs, and those that send no `User-Agent`. */
const UNRECOGNIZED = 'Unrecognized';

interface Client {
  readonly name: string;
  /** One of these is in the header, in lower case. A space is before the name of a product. */
  readonly texts: readonly string[];
}

/** The clients, in order: a program comes before the library that it may also name. */
export const CLIENTS: readonly Client[] = [
  { name: 'Claude Code', texts: [' claude-cli/'] },
  { name: 'Codex', texts: [' codex_', ' codex-', ' codex/'] },
  { name: 'OpenCode', texts: [' opencode/'] },
  { name: 'Open WebUI', texts: [' open webui', ' open-webui/'] },
  { name: 'Sluice', texts: [' sluice/'] },
  { name: 'AI SDK', texts: [' ai-sdk'] },
  { name: 'LangChain', texts: [' langchain'] },
  { name: 'LiteLLM', texts: [' litellm/'] },
  { name: 'OpenAI Agents', texts: [' agents/'] },
  { name: 'Pydantic AI', texts: [' pydantic-ai/'] },
  // Without a space, because classes for Azure and for asynchronous calls have prefixes.
  { name: 'OpenAI Python', texts: ['openai/python'] },
  { name: 'OpenAI JavaScript', texts: ['openai/js'] },
  { name: 'OpenAI Go', texts: ['openai/go'] },
  { name: 'Anthropic Python', texts: ['anthropic/python'] },
  { name: 'Anthropic JavaScript', texts: ['anthropic/js'] },
  { name: 'Anthropic Go', texts: ['anthropic/go'] },
  { name: 'Ollama Python', texts: [' ollama-python/'] },
  { name: 'Ollama JavaScript', texts: [' ollama-js/'] },
  { name: 'HTTPX', texts: [' python-httpx'] },
  { name: 'Requests', texts: [' python-requests/'] },
  { name: 'aiohttp', texts: [' aiohttp/'] },
  { name: 'urllib', texts: [' python-urllib/'] },
  { name: 'Axios', texts: [' axios/'] },
  { name: 'Node.js', texts: [' node', ' undici'] },
  { name: 'Bun', texts: [' bun/'] },
  { name: 'Deno', texts: [' deno/'] },
  { name: 'Go', texts: [' go-http-client/'] },
  { name: 'Java', texts: [' java-http-client/', ' okhttp/'] },
  { name: 'curl', texts: [' curl/'] },
  { name: 'Postman', texts: [' postmanruntime/'] },
  { name: 'Browser', texts: [' mozilla/'] },
];
