// The report: one HTML page that needs nothing else, with plots without Weir and with it side by
// side. Light and dark, without scripts.
#pragma once

#include <string>
#include <vector>

#include "workload/simulation.h"

namespace weir::workload {

struct ReportText {
  std::string title;
  std::vector<std::string> assumptions;  // sentences
};

std::string html_report(const ReportText& text, const SimulationOptions& options,
                        const Outcome& direct, const Outcome& weir);

}  // namespace weir::workload
