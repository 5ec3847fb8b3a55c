/** The call failed. `unavailable`: nobody answered, or no leader; a write may have happened all the same (facts §3), unless
 *  `maybeDone` is false. `denied`: 403. `rejected`: Nomad found the call wrong (400, or a 500 that says why). `too_large`: the
 *  answer is more than was to be read.
 *  It lives in core because the room that throws it and the rooms that catch it never import each other's values. */
export class NomadFault extends Error {
  readonly kind: 'unavailable' | 'denied' | 'rejected' | 'too_large'
  readonly maybeDone: boolean

  constructor(kind: NomadFault['kind'], text: string, maybeDone = kind === 'unavailable', cause?: unknown) {
    super(text, cause === undefined ? undefined : { cause })
    this.name = 'NomadFault'
    this.kind = kind
    this.maybeDone = maybeDone
  }
}
