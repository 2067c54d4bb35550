const TAG = "applied:";
const ALONE = "key:"; // begins the set of code without a name

export const isDeclared = (tag: string): boolean => tag.startsWith(TAG);

/** Says, before a declared job is changed, what the next apply of its set does: "puts it back". Nothing of other jobs. */
export function Declared({ tags, does, instead }: { tags: readonly string[]; does: string; instead: (where: string) => string }) {
  const sets = tags.filter(isDeclared).map((tag) => tag.slice(TAG.length));
  if (!sets.length) return null;
  const isCode = sets.every((name) => name.startsWith(ALONE));
  return (
    <p class="warn-text" role="note">
      Declared in {isCode ? "code" : "the set"} <b>{sets.join(", ")}</b>: the next {isCode ? "start" : "apply, or start of the code,"} {does}. {instead(isCode ? "the code" : "the file or the code")}
    </p>
  );
}
