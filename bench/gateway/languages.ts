/** How a client sends a chat in one of Sluice's languages. */
export interface Language {
  readonly path: string;
  /** Returns the fields of a chat with one message of the user, besides `model`, `stream` and the sampling. */
  readonly fields: (content: string, maxTokens: number) => object;
}

/** The chat that peers and the minimal proxy receive, too. */
export const CHAT: Language = {
  path: '/v1/chat/completions',
  fields: (content, maxTokens) => ({ messages: [{ role: 'user', content }], max_tokens: maxTokens }),
};

/** The other languages, by the names of their arms. */
export const LANGUAGES: Readonly<Record<string, Language>> = {
  responses: {
    path: '/v1/responses',
    fields: (content, maxTokens) => ({ input: [{ role: 'user', content }], max_output_tokens: maxTokens }),
  },
  messages: { path: '/v1/messages', fields: CHAT.fields },
};
