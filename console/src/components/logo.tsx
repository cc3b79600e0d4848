/** The Sluice logo: a gate with water flowing through it. */
export function Logo({ className = 'size-6' }: { className?: string }) {
  return (
    <svg viewBox="0 0 32 32" className={className} aria-hidden="true">
      <rect width="32" height="32" rx="8" className="fill-accent" />
      <g fill="none" className="stroke-accent-ink" strokeLinecap="round" strokeWidth="2.6">
        <path d="M9 7v18M23 7v18" />
        <path
          d="M12.5 12.2c2.3-2 4.7 2 7 0M12.5 17c2.3-2 4.7 2 7 0M12.5 21.8c2.3-2 4.7 2 7 0"
          strokeWidth="2.2"
        />
      </g>
    </svg>
  );
}
