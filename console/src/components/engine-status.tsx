import type { ItemOf } from '../api/client.ts';
import { Status, type Tone } from './badge.tsx';
import { percent } from '../format/number.ts';

type State = Pick<ItemOf<'listEngines'>, 'state' | 'fraction'>;

const STATES: Readonly<Record<State['state'], { word: string; tone: Tone }>> = {
  ready: { word: 'Ready', tone: 'good' },
  loading: { word: 'Loading', tone: 'accent' },
  downloading: { word: 'Downloading', tone: 'accent' },
  unloaded: { word: 'Not loaded', tone: 'neutral' },
  paused: { word: 'Paused', tone: 'warn' },
  down: { word: 'Down', tone: 'bad' },
};

/** The state of a replica or model, with the progress of loading or downloading. */
export function EngineStatus({ engine: { state, fraction } }: { engine: State }) {
  const { word, tone } = STATES[state];
  const underWay = state === 'loading' || state === 'downloading';
  return (
    <Status tone={tone} live={underWay}>
      {underWay && fraction !== null ? `${word} ${percent(Math.floor(fraction * 100) / 100)}` : word}
    </Status>
  );
}
