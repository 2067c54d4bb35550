/** How far something is; without a total, that it goes on. */
export function Progress({ done, total, label }: { done: number; total: number | null; label: string }) {
  const text = total ? `${done} of ${total}` : `${done}`;
  return (
    <span class="progress">
      <progress aria-label={label} {...(total ? { value: done, max: total } : {})} />
      <span class="number">{text}</span>
    </span>
  );
}
