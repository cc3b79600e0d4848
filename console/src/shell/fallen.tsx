import { RotateCw } from 'lucide-react';
import { Component, type ReactNode } from 'react';
import { Button } from '../components/button.tsx';

interface Props {
  /** Another page: what kept the one before from being shown is over. */
  path: string;
  children: ReactNode;
}

/**
 * Stands in the place of a page that cannot be shown: mostly because the service has been renewed meanwhile, and the
 * files that this page was made of are gone.
 */
export class Fallen extends Component<Props, { path: string | null }> {
  override state: { path: string | null } = { path: null };

  static getDerivedStateFromProps({ path }: Props, state: { path: string | null }) {
    return state.path !== null && state.path !== path ? { path: null } : null;
  }

  override componentDidCatch(): void {
    this.setState({ path: this.props.path });
  }

  override render() {
    if (this.state.path === null) return this.props.children;
    return (
      <div role="alert" className="flex min-h-[60dvh] flex-col items-center justify-center px-6 text-center">
        <h1 className="text-base font-semibold">This page could not be shown</h1>
        <p className="mt-1 max-w-md text-sm text-ink-3">
          The console may have been renewed since you opened it. Loading it again helps then; nothing that the
          service keeps is lost.
        </p>
        <Button
          className="mt-5"
          kind="primary"
          icon={<RotateCw className="size-4" aria-hidden="true" />}
          onClick={() => location.reload()}
        >
          Load it again
        </Button>
      </div>
    );
  }
}
