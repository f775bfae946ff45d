// Time that does not depend on what else the machine runs.

/** Processor time of this process since `process.cpuUsage()` gave `began`, in milliseconds. */
export function processorMs(began: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(began);
  return (user + system) / 1000;
}
