import { literal } from '../grammar-rules.ts';
import { jsonObject } from './json-text.ts';
import type { ToolFormat } from './tool-format.ts';

/** gpt-oss: `<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>`. The channel may come after `to`. */
export const HARMONY: ToolFormat = {
  name: 'harmony',
  openings: [' to=functions.'],
  repeats: false,
  separator: '""',
  *parse({ reader, writer }) {
    const name = yield* reader.name(' <\n');
    yield* reader.until(['<|message|>'], () => {});
    yield* reader.space();
    yield* reader.expect('{');
    writer.begin(name);
    yield* jsonObject(reader, (text) => writer.json(text));
  },
  grammar: (grammar) => {
    const type = '(" json" | " "? "<|constrain|>json")?';
    const call = grammar.anyTool(
      (tool) =>
        `${literal(tool.name)} "<|channel|>commentary"? ${type} "<|message|>" ${grammar.object(tool)}`,
    );
    return `" to=functions." ${call}`;
  },
  preamble:
    '("<|channel|>analysis<|message|>" ([^<] | "<" [^|])* "<|end|><|start|>assistant")? "<|channel|>commentary"?',
};
