/** The checksum of native/cpu/runtime/checksum.cc, spelled out. */
const MASK = (1n << 64n) - 1n;
const ODD = 0xd1342543de82ef95n;
const NUM_LANES = 8;
const STRIPE = NUM_LANES * 8;

const take = (lane: bigint, word: bigint): bigint => {
  const product = ((lane ^ word) * ODD) & MASK;
  return ((product << 29n) | (product >> 35n)) & MASK;
};

export function checksum(bytes: Uint8Array): string {
  const padded = new Uint8Array(Math.ceil(bytes.length / STRIPE) * STRIPE);
  padded.set(bytes);
  const view = new DataView(padded.buffer);
  const lanes = Array.from({ length: NUM_LANES }, (_, lane) => take(ODD, BigInt(lane + 1)));
  for (let at = 0; at < padded.length; at += 8) {
    const lane = (at / 8) % NUM_LANES;
    lanes[lane] = take(lanes[lane]!, view.getBigUint64(at, true));
  }
  let sum = take(ODD, BigInt(bytes.length));
  for (const lane of lanes) {
    sum = take(sum, lane);
    sum ^= sum >> 32n;
  }
  return sum.toString(16).padStart(16, "0");
}
