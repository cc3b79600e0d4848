import { memo } from 'react';
import { highlight } from './highlight.ts';

export default memo(function Highlighted({ text, language }: { text: string; language: string }) {
  return highlight(text, language).map(({ text: piece, kind }, index) =>
    kind === null ? (
      piece
    ) : (
      // The pieces never change order.
      <span key={index} className={`code-${kind}`}>
        {piece}
      </span>
    ),
  );
});
