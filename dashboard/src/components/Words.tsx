/** A sentence of the API: what it writes in backticks is shown as code. */
export function Words({ text }: { text: string }) {
  return <>{text.split("`").map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}</>;
}
