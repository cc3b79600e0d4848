import { literal } from '../grammar-rules.ts';
import { jsonObject } from './json-text.ts';
import type { ToolFormat } from './tool-format.ts';

const BEGIN = '<｜tool▁calls▁begin｜>';
const CALL = '<｜tool▁call▁begin｜>';
const SEPARATOR = '<｜tool▁sep｜>';
const CALL_END = '<｜tool▁call▁end｜>';
const END = '<｜tool▁calls▁end｜>';

/** The shape of a call. `fenced` is true if the arguments are in a fenced code block. */
interface Style {
  name: string;
  fenced: boolean;
}

/** DeepSeek R1 and V3: the word `function` comes before the name, and the arguments are in a fenced code block. */
export const DEEPSEEK_R1: ToolFormat = deepseek({ name: 'deepseek-r1', fenced: true });

/** DeepSeek V3.1: `<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>`. */
export const DEEPSEEK: ToolFormat = deepseek({ name: 'deepseek', fenced: false });

function deepseek({ name: format, fenced }: Style): ToolFormat {
  return {
    name: format,
    openings: [BEGIN],
    repeats: false,
    separator: '""',
    *parse({ reader, writer }) {
      yield* reader.space();
      while ((yield* reader.oneOf([CALL, END])) === CALL) {
        let name = yield* reader.name('<\n');
        yield* reader.literal(SEPARATOR);
        if (fenced) {
          name = yield* reader.name('\n');
          yield* reader.space();
          yield* reader.literal('```json');
        }
        yield* reader.space();
        yield* reader.expect('{');
        writer.begin(name);
        yield* jsonObject(reader, (text) => writer.json(text));
        yield* reader.space();
        if (fenced) yield* reader.literal('```');
        yield* reader.space();
        yield* reader.literal(CALL_END);
        writer.end();
        yield* reader.space();
      }
    },
    grammar: (grammar) => {
      const call = grammar.anyTool((tool) =>
        fenced
          ? `${literal(`function${SEPARATOR}${tool.name}\n\`\`\`json\n`)} ${grammar.object(tool)} "\\n\`\`\`"`
          : `${literal(tool.name + SEPARATOR)} ${grammar.object(tool)}`,
      );
      const element = grammar.rules.share(`${literal(CALL)} ${call} ${literal(CALL_END)}`);
      return `${literal(BEGIN)} ${grammar.list(element, '"\\n"?')} ${literal(END)}`;
    },
  };
}
