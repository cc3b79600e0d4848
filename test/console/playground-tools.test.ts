/** Tools and reasoning in the playground: the editor, calls with their results, and the states of a response. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page, Request } from 'playwright-core';
import { scripted, type Directive } from '../support/scripted-engine/directive.ts';
import { MODEL, until } from '../harness.ts';
import { axe, setView, sidewaysScroll, WITH_BROWSER } from './browser.ts';
import { openStage, type Stage } from './stage.ts';

const MODELS = `models:
  - {id: ${MODEL}, required: true, tools: true, reasoning: true, engine: {file: 'scripted:{}'}}
  - {id: test/plain, required: true, tools: false, engine: {file: 'scripted:{}'}}
`;

const TOOL = '{"name": "get_weather", "parameters": {"type": "object"}}';
const ZURICH = { name: 'get_weather', arguments: { city: 'Zurich', days: [1, 2] } };
const BERN = { name: 'get_weather', arguments: { city: 'Bern' } };

/** The messages of a request. */
interface SentBody {
  messages: {
    role: string;
    content: string | null;
    reasoning_content?: string;
    tool_call_id?: string;
    tool_calls?: { id: string; function: { name: string; arguments: string } }[];
  }[];
  tools?: { function: { name: string } }[];
  tool_choice?: unknown;
}

describe('tools in the playground', WITH_BROWSER, () => {
  let stage: Stage;
  let page: Page;
  const sent: Request[] = [];
  before(async () => {
    stage = await openStage(MODELS);
    ({ page } = stage.operator);
    page.on('request', (request) => {
      if (request.url().includes('/v1/chat/completions')) sent.push(request);
    });
    await page.goto('/playground');
  });
  after(() => stage[Symbol.asyncDispose]());

  const panel = () => page.getByRole('complementary', { name: 'Parameters' });
  const editor = () => panel().getByLabel('Functions');
  const message = () => page.getByLabel('Message', { exact: true });
  const last = () => page.getByRole('article', { name: 'Assistant' }).last();
  const result = (call = '') => last().getByLabel(`Result of get_weather${call}`, { exact: true });
  const lastBody = () => sent.at(-1)?.postDataJSON() as SentBody;

  async function send(directive: Directive | readonly Directive[]): Promise<void> {
    await message().fill(`How warm is it? ${scripted(directive)}`);
    await message().press('Enter');
  }

  test('tools are checked while they are typed', async () => {
    await panel().getByRole('button', { name: 'Tools' }).click();
    await editor().fill(`[{"description": "Weather"}]`);
    await panel().getByText('tools[0] must be a function with a name.').waitFor();
    await editor().fill(`[${TOOL}`);
    await panel().getByText('Invalid JSON').waitFor();
    assert.equal(await editor().getAttribute('aria-invalid'), 'true');
    await page.getByRole('button', { name: 'Parameters 1 invalid' }).waitFor();
    await panel().getByRole('button', { name: 'Clear tools' }).click();
    assert.equal(await editor().inputValue(), '');
  });

  test('examples fill the editor, and the tools can be chosen by name', async () => {
    await panel().getByRole('button', { name: 'Shop' }).click();
    await panel().getByRole('button', { name: 'Tools 3 functions' }).waitFor();
    await panel().getByRole('combobox', { name: 'Tool choice' }).click();
    await page.getByRole('option', { name: 'place_order' }).click();
    await message().fill('Order a teapot.');
    await message().press('Enter');
    await last().getByRole('group', { name: 'Call of place_order' }).waitFor();
    await last().getByText('Enter the result of the call.').waitFor();
    assert.deepEqual(lastBody().tool_choice, { type: 'function', function: { name: 'place_order' } });
  });

  test('results are entered below each call, and the response continues when they are sent', async () => {
    await restart();
    await send([
      { reasoning: 'Two cities to look up.', calls: [ZURICH, BERN], tokenMs: 10 },
      { text: 'It is warmer in Zurich.' },
    ]);
    await last().getByRole('button', { name: 'Send results' }).waitFor();
    assert.deepEqual(
      lastBody().tools?.map((tool) => tool.function.name),
      ['get_weather'],
    );
    const card = last().getByRole('group', { name: 'Call of get_weather' }).first();
    assert.equal((await card.locator('pre').innerText()).trim(), JSON.stringify(ZURICH.arguments, null, 2));
    assert.ok(await last().getByRole('button', { name: 'Send results' }).isDisabled());
    await result(', call 1').fill('21 degrees');
    // With a result missing, Enter moves to its field.
    await result(', call 1').press('Enter');
    const focused = await page.evaluate('document.activeElement.getAttribute("aria-label")');
    assert.equal(focused, 'Result of get_weather, call 2');
    await page.keyboard.insertText('17 degrees');
    await page.keyboard.press('Enter');
    await last().getByText('It is warmer in Zurich.').waitFor();
    const { messages } = lastBody();
    assert.deepEqual(
      messages.map(({ role }) => role),
      ['user', 'assistant', 'tool', 'tool'],
    );
    const [, assistant, first, second] = messages;
    assert.equal(assistant?.content, null);
    assert.equal(assistant.reasoning_content, 'Two cities to look up.');
    assert.deepEqual(
      assistant.tool_calls?.map((call) => [call.id, call.function.name, call.function.arguments]),
      [
        [first?.tool_call_id, ZURICH.name, JSON.stringify(ZURICH.arguments)],
        [second?.tool_call_id, BERN.name, JSON.stringify(BERN.arguments)],
      ],
    );
    assert.equal(first?.content, '21 degrees');
  });

  test('the code samples contain tools, calls and results', async () => {
    await page.getByRole('button', { name: 'Code' }).click();
    const dialog = page.getByRole('dialog', { name: 'Code' });
    const code = await dialog.getByRole('tabpanel').innerText();
    for (const part of ['"tools"', '"tool_calls"', '"tool_call_id"', '21 degrees'])
      assert.ok(code.includes(part), code);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  });

  test('reasoning is collapsed, shows its tokens, and stays open when the response ends', async () => {
    await restart();
    // Slow enough to be opened while it streams.
    await send({ reasoning: 'First this, then that. '.repeat(4), text: 'Done.', tokenMs: 150 });
    const summary = last().locator('summary').filter({ hasText: 'Reasoning' });
    const reasoning = last().getByText('First this, then that.');
    // With the keyboard, because the page scrolls during the stream, and a click can miss. A busy page can miss a key too.
    await until(async () => {
      if (!(await reasoning.isVisible())) await summary.press('Enter');
      return await reasoning.isVisible();
    });
    await last().getByText('Done.').waitFor();
    await last()
      .getByText(/Reasoning · \d+ tokens/)
      .waitFor();
    assert.ok(await last().getByText('First this, then that.').isVisible());
    await page.reload();
    await last()
      .getByText(/Reasoning · \d+ tokens/)
      .waitFor();
    assert.equal(await last().getByText('First this, then that.').isVisible(), false);
  });

  test('a message cannot be sent until all calls have results', async () => {
    await restart();
    await send({ calls: [ZURICH] });
    await result().waitFor();
    const count = sent.length;
    await message().fill('Never mind.');
    assert.ok(await page.getByRole('button', { name: 'Send', exact: true }).isDisabled());
    await page.getByText('Enter the results of the calls above first.').waitFor();
    await message().press('Enter');
    assert.equal(await message().inputValue(), 'Never mind.');
    await result().fill('{"degrees": 21}');
    await message().fill(scripted({ text: 'All right.' }));
    await message().press('Enter');
    await last().getByText('All right.').waitFor();
    assert.equal(sent.length, count + 1);
    assert.deepEqual(
      lastBody().messages.map(({ role }) => role),
      ['user', 'assistant', 'tool', 'user'],
    );
  });

  test('results survive a reload', async () => {
    await restart();
    await send({ calls: [ZURICH] });
    await result().fill('typed before the reload');
    await page.reload();
    assert.equal(await result().inputValue(), 'typed before the reload');
  });

  test('a call cut off at the token limit is shown with a note and has no result field', async () => {
    await restart();
    await panel().getByRole('textbox', { name: 'Maximum tokens' }).fill('4');
    await send({ calls: [ZURICH] });
    await last().getByText('The arguments were cut off at the token limit.').waitFor();
    const shown = await last().getByRole('group', { name: 'Call of get_weather' }).locator('pre').innerText();
    assert.ok(JSON.stringify(ZURICH.arguments).startsWith(shown) && shown !== '', shown);
    assert.equal(await result().count(), 0);
    await send({ reasoning: 'So much to think about before anything is said.' });
    await last().getByText('The token limit was reached during the reasoning.').waitFor();
  });

  test('an error response about the tools is shown at the editor until the tools are edited', async () => {
    await restart();
    const invalid = { name: 'a', strict: true, parameters: { type: 'string' } };
    await editor().fill(JSON.stringify([invalid]));
    await send({ text: 'Hello.' });
    const shown = panel().getByText('tools[0].function.parameters');
    await shown.waitFor();
    assert.equal(await editor().getAttribute('aria-invalid'), 'true');
    await editor().fill(`[${TOOL}]`);
    await until(async () => (await shown.count()) === 0);
    await last().getByRole('button', { name: 'Try again' }).click();
    await last().getByText('Hello.').waitFor();
  });

  test('the editors warn about models without tools or reasoning, and do not block requests', async () => {
    await page.getByRole('combobox', { name: 'Model' }).click();
    await page.getByRole('option', { name: 'test/plain' }).click();
    await panel().getByText('plain does not support tools').waitFor();
    await panel().getByRole('button', { name: 'Reasoning' }).click();
    await panel().getByText('It is unknown whether plain supports reasoning.').waitFor();
    await restart();
    await send({ calls: [ZURICH] });
    await result().waitFor();
  });

  test('on a phone in dark mode, calls and editors have no axe violations or horizontal scrolling', async () => {
    await last().getByRole('button', { name: 'Send results' }).scrollIntoViewIfNeeded();
    await setView(page, { width: 360, scheme: 'dark' });
    assert.deepEqual(await axe(page), []);
    assert.equal(await sidewaysScroll(page), 0);
    await page.getByRole('button', { name: 'Parameters' }).click();
    const dialog = page.getByRole('dialog', { name: 'Parameters' });
    await dialog.getByRole('button', { name: 'Tools' }).click();
    await dialog.getByRole('button', { name: 'Reasoning' }).click();
    await dialog.getByLabel('Functions').fill('[{}]');
    await dialog.getByText('tools[0] must be a function').waitFor();
    assert.deepEqual(await axe(page), []);
    assert.equal(await sidewaysScroll(page), 0);
  });

  /** Starts a chat with default parameters, and enters the tool again. */
  async function restart(): Promise<void> {
    await page.getByRole('button', { name: 'New chat' }).click();
    await panel().getByRole('button', { name: 'Reset all parameters' }).click();
    await page.getByRole('article').first().waitFor({ state: 'detached' });
    const section = panel().getByRole('button', { name: 'Tools', exact: true });
    if ((await section.getAttribute('aria-expanded')) === 'false') await section.click();
    await editor().fill(`[${TOOL}]`);
  }
});
