import type { ComponentChildren } from "preact";
import { useGet } from "../api/use";
import { exampleOf, type Example as Of } from "../commands";
import { Empty } from "./Empty";

type Props = { title: string; children: ComponentChildren; command: (example: Of) => string };

/** Nothing here, and what to type next, with a task that there is; without any, how to start a worker that has some. */
export function Example({ title, children, command }: Props) {
  const tasks = useGet("/v1/tasks");
  if (!tasks.data) return <Empty title={title} />;
  const example = exampleOf(tasks.data.tasks);
  if (!example) return <Empty title={title} command="oncue up --tasks tasks.py">No worker has registered a task of yours yet. Start one with a file of tasks:</Empty>;
  return <Empty title={title} command={command(example)}>{children}</Empty>;
}
