import type { Metric } from './table.ts';

/** Maximum label combinations of one metric. */
const MAX_SERIES = 500;

/** The value of every label of the series that counts all combinations beyond the maximum. */
const OTHER = 'other';

/** The series of one metric, by their label values. */
export class SeriesTable<S> {
  readonly #metric: Metric;
  readonly #create: () => S;
  readonly #series = new Map<string, { labels: string; value: S }>();

  constructor(metric: Metric, create: () => S) {
    this.#metric = metric;
    this.#create = create;
    // A metric without labels has one series from the start.
    if (metric.labels.length === 0) this.at();
  }

  /** Returns the series with these label values, in the order of the metric's labels. Creates it if necessary. */
  at(...values: readonly string[]): S {
    const [only = ''] = values;
    const key = values.length <= 1 ? only : values.join('\0');
    return (this.#series.get(key) ?? this.#add(key, values)).value;
  }

  #add(key: string, values: readonly string[]): { value: S } {
    if (this.#series.size >= MAX_SERIES) {
      const others = values.map(() => OTHER);
      const shared = others.join('\0');
      const found = this.#series.get(shared);
      // The shared series is added although the maximum is reached.
      return found ?? this.#set(shared, others);
    }
    return this.#set(key, values);
  }

  #set(key: string, values: readonly string[]): { value: S } {
    const series = { labels: labelText(this.#metric, values), value: this.#create() };
    this.#series.set(key, series);
    return series;
  }

  /** Returns the metric in Prometheus' text format. `format` returns the lines of one series. */
  expose(format: (labels: string, value: S) => string): string {
    let text = heading(this.#metric);
    for (const { labels, value } of this.#series.values()) text += format(labels, value);
    return text;
  }
}

export class Counter {
  readonly #metric: Metric;
  readonly #table: SeriesTable<{ total: number }>;

  constructor(metric: Metric) {
    this.#metric = metric;
    this.#table = new SeriesTable(metric, () => ({ total: 0 }));
  }

  /** Adds to the series with these label values. */
  add(count: number, ...values: readonly string[]): void {
    this.#table.at(...values).total += count;
  }

  expose(): string {
    return this.#table.expose((labels, { total }) => sample(this.#metric.name, labels, total));
  }
}

interface Observations {
  /** The observations of each bucket, not cumulative. The last bucket has no upper bound. */
  readonly counts: Float64Array;
  sum: number;
}

export class Histogram {
  readonly #name: string;
  readonly #bounds: Float64Array;
  /** The `le` label of each bucket, with the closing brace. */
  readonly #ends: readonly string[];
  readonly #table: SeriesTable<Observations>;

  constructor(metric: Metric & { readonly buckets: readonly number[] }) {
    const { name, buckets } = metric;
    this.#name = name;
    this.#bounds = Float64Array.from([...buckets, Infinity]);
    this.#ends = [...buckets.map(String), '+Inf'].map((bound) => `le="${bound}"} `);
    this.#table = new SeriesTable(metric, () => ({
      counts: new Float64Array(buckets.length + 1),
      sum: 0,
    }));
  }

  /** Adds an observation, in the unit of the metric, to the series with these label values. */
  observe(value: number, ...values: readonly string[]): void {
    const series = this.#table.at(...values);
    const bounds = this.#bounds;
    let bucket = 0;
    while (value > (bounds[bucket] as number)) bucket++;
    (series.counts[bucket] as number)++;
    series.sum += value;
  }

  expose(): string {
    return this.#table.expose((labels, { counts, sum }) => {
      const start = `${this.#name}_bucket{${labels}${labels === '' ? '' : ','}`;
      let total = 0;
      let text = '';
      for (const [bucket, end] of this.#ends.entries()) {
        total += counts[bucket] ?? 0;
        text += `${start}${end}${total}\n`;
      }
      return text + sample(`${this.#name}_sum`, labels, sum) + sample(`${this.#name}_count`, labels, total);
    });
  }
}

/** One series of a metric that is read at each scrape: its label values and its value. */
export type Sample = readonly [labels: readonly string[], value: number];

/** Returns a counter or gauge in Prometheus' text format. */
export function exposeSamples(metric: Metric, samples: readonly Sample[]): string {
  return samples.reduce(
    (text, [values, value]) => text + sample(metric.name, labelText(metric, values), value),
    heading(metric),
  );
}

/** Returns a summary without quantiles or labels. */
export function exposeSummary(metric: Metric, { count, sum }: { count: number; sum: number }): string {
  return heading(metric) + sample(`${metric.name}_sum`, '', sum) + sample(`${metric.name}_count`, '', count);
}

/** Returns one line of Prometheus' text format. `labels` is the text between the braces. */
export function sample(name: string, labels: string, value: number | string): string {
  return labels === '' ? `${name} ${value}\n` : `${name}{${labels}} ${value}\n`;
}

function heading({ name, type, help }: Metric): string {
  return `# HELP ${name} ${help.replaceAll('\\', String.raw`\\`).replaceAll('\n', String.raw`\n`)}\n# TYPE ${name} ${type}\n`;
}

function labelText({ labels }: Metric, values: readonly string[]): string {
  return labels.map((label, index) => `${label}="${escape(values[index] ?? '')}"`).join(',');
}

function escape(value: string): string {
  return value
    .replaceAll('\\', String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll('\n', String.raw`\n`);
}
