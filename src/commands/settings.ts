import { InvalidArgumentError, Option, type Command } from 'commander';
import { HOST_FORM, isHost, isPort, PORT_FORM } from '../config/address.ts';

interface Setting {
  flags: string;
  description: string;
  variable: string;
  isValid: (text: string) => boolean;
  /** The accepted values, as a noun phrase. */
  form: string;
}

const SETTINGS = {
  host: {
    flags: '--host <address>',
    description: 'address to listen on (default: SLUICE_HOST or 127.0.0.1)',
    variable: 'SLUICE_HOST',
    isValid: isHost,
    form: HOST_FORM,
  },
  port: {
    flags: '--port <port>',
    description: 'port to listen on; 0 picks a free port, which is printed (default: SLUICE_PORT or 8080)',
    variable: 'SLUICE_PORT',
    isValid: isPort,
    form: PORT_FORM,
  },
  home: {
    flags: '--home <directory>',
    description:
      'data directory: the database, models and other files of Sluice (default: SLUICE_HOME, or a directory that depends on the platform)',
    variable: 'SLUICE_HOME',
    isValid: (text) => text !== '',
    form: 'the path of a directory',
  },
  config: {
    flags: '--config <file>',
    description: 'configuration file (default: SLUICE_CONFIG or none)',
    variable: 'SLUICE_CONFIG',
    isValid: (text) => text !== '',
    form: 'the path of a YAML file',
  },
} as const satisfies Record<string, Setting>;

/**
 * Adds options for settings that are also environment variables. An option replaces its variable in `process.env`, so
 * that all code reads settings in one way.
 */
export function addSettings(command: Command, names: readonly (keyof typeof SETTINGS)[]): void {
  for (const name of names) {
    const { flags, description, variable, isValid, form }: Setting = SETTINGS[name];
    const parse = (text: string): string => {
      if (!isValid(text)) throw new InvalidArgumentError(`Expected ${form}.`);
      return text;
    };
    command.addOption(new Option(flags, description).argParser(parse));
    command.on(`option:${name}`, (text: string) => void (process.env[variable] = text));
  }
}
