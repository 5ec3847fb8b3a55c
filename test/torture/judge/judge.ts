// All judges, one after another: pure functions of the evidence.
import type { Evidence, Verdict } from '../evidence.ts'
import { judgeAvailability, judgeTaskEvents } from './availability.ts'
import { judgeLogs, judgeShims } from './endings.ts'
import { judgeActs, judgeHistories, judgeTokens } from './grants.ts'
import { judgeShared } from './shared.ts'

const JUDGES = [judgeHistories, judgeTokens, judgeActs, judgeShared, judgeAvailability, judgeTaskEvents, judgeShims, judgeLogs]

export function judge(evidence: Evidence): Verdict {
  const verdicts = JUDGES.map((one) => one(evidence))
  return {
    violations: verdicts.flatMap(({ violations }) => violations),
    figures: Object.assign({}, ...verdicts.map(({ figures }) => figures)) as Record<string, number>,
  }
}
