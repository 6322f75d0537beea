/** How the devices of an instance share a model. */

export interface Sharing {
  /** Devices that share each layer's attention. */
  readonly tensorParallel: number;
  /** Groups of that many devices, each with its own requests, which share the experts; absent: one. */
  readonly dataParallel?: number | undefined;
  /** Whether each expert lies whole on one device of the instance; absent: every device has a part of each expert. */
  readonly hasWholeExperts?: boolean | undefined;
  /** Hosts, or groups of devices, that hold consecutive layers; absent: every device has a part of every layer. */
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

/** The sharing fields of an object that has more. */
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
