/** Pages of `docs/`, rendered by `guide.ts`. */
declare module '*.md' {
  const content: import('../guide.ts').GuideContent;
  export default content;
}
