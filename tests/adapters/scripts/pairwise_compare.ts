// A client of `evalkit serve`, typed from its /openapi.json; answers are parsed by the schema of the tool.
import createClient from "openapi-fetch";
import { z } from "zod";
import type { paths } from "./judge";

declare const process: { argv: string[] };
const winner = z.enum(["A", "B", "TIE"]);
const schema = z.object({
  success: z.boolean(),
  winner,
  confidence: z.number().min(0).max(1),
  comparison: z.array(
    z.object({ criterion: z.string(), winner, reasoning: z.string(), aStrength: z.string(), bStrength: z.string() }),
  ),
  overallReasoning: z.string(),
  differentiators: z.object({ aAdvantages: z.array(z.string()), bAdvantages: z.array(z.string()) }),
  positionConsistency: z
    .object({ firstPassWinner: winner, secondPassWinner: winner, consistent: z.boolean() })
    .optional(),
  metadata: z.object({ evaluationTimeMs: z.number(), positionsSwapped: z.boolean() }),
});

const [url, prompt, good, bad] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url });
const { data, error } = await client.POST("/pairwise_compare", {
  body: { prompt, responseA: good, responseB: bad, criteria: ["accuracy"], allowTie: true, swapPositions: true },
});
if (error) throw new Error(JSON.stringify(error));
console.log(JSON.stringify(schema.parse(data)));
