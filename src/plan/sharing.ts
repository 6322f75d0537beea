/** How the devices of an instance share a model. */

export interface Sharing {
  /** Devices that share each layer's attention. */
  readonly tensorParallel: number;
  /** Groups of so many devices, each with requests of its own, which share the experts; absent: one. */
  readonly dataParallel?: number | undefined;
  /** Each expert lies whole on one device of the instance; absent: every expert is cut into a part for each. */
  readonly hasWholeExperts?: boolean | undefined;
  /** Hosts, or groups of devices, that hold the layers one after another; absent: every device has a part of all. */
  readonly pipelineParallel?: number | undefined;
  /** Layers whose experts lie in the host's memory; absent: none. */
  readonly numHostLayers?: number | undefined;
}

/** Devices of all instances of a layout. */
export const devicesOf = ({ tensorParallel, dataParallel = 1, pipelineParallel = 1 }: Sharing): number =>
  tensorParallel * dataParallel * pipelineParallel;

/** @example sharingText({ tensorParallel: 2, dataParallel: 4, hasWholeExperts: true }) // "TP2 DP4 EP8" */
export function sharingText({
  tensorParallel,
  dataParallel = 1,
  hasWholeExperts,
  pipelineParallel = 1,
  numHostLayers = 0,
}: Sharing): string {
  return [
    `TP${tensorParallel}`,
    ...(dataParallel > 1 ? [`DP${dataParallel}`] : []),
    ...(hasWholeExperts === true ? [`EP${tensorParallel * dataParallel}`] : []),
    ...(pipelineParallel > 1 ? [`PP${pipelineParallel}`] : []),
    ...(numHostLayers > 0 ? [`+ host ${numHostLayers}`] : []),
  ].join(" ");
}

/** The same fields of an object that has more. */
export const sharingOf = ({
  tensorParallel,
  dataParallel,
  hasWholeExperts,
  pipelineParallel,
  numHostLayers,
}: Sharing): Sharing => ({
  tensorParallel,
  ...(dataParallel === undefined ? {} : { dataParallel }),
  ...(hasWholeExperts === undefined ? {} : { hasWholeExperts }),
  ...(pipelineParallel === undefined ? {} : { pipelineParallel }),
  ...(numHostLayers === undefined ? {} : { numHostLayers }),
});

export const isSameSharing = (a: Sharing, b: Sharing): boolean => sharingText(a) === sharingText(b);
