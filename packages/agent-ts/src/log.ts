/** Writes a line to the container's output. */
export function warn(line: string): void {
  process.stderr.write(`botpool-agent: ${line}\n`);
}
