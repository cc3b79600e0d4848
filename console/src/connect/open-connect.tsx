import { openOverlay } from '../components/overlays.tsx';
import { orToast } from '../api/act.ts';

export interface ConnectStart {
  /** A model ID. Default: the default model. */
  model?: string;
  /** Default: the newest key that can be used. */
  keyId?: string;
}

/** Opens the dialog that connects an app, which is loaded first. */
export function openConnect(start: ConnectStart = {}): void {
  void orToast(
    import('./connect-dialog.tsx').then(({ ConnectDialog }) => {
      void openOverlay((close) => <ConnectDialog {...start} onClose={close} />);
    }),
  );
}
