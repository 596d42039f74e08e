# The public names, each declared here and nowhere else: __init__.py reads where they live from these lines, and type
# checkers read the lines themselves, so that both refuse a name that does not exist.
from smoothcert.attacks.check import attack as attack
from smoothcert.calibration import calibrate as calibrate
from smoothcert.cascade import Cascade as Cascade
from smoothcert.certificates import Certificate as Certificate
from smoothcert.certificates import Soundness as Soundness
from smoothcert.cli.reproduce import reproduce as reproduce
from smoothcert.data.guests import as_dataset as as_dataset
from smoothcert.engine import Engine as Engine
from smoothcert.errors import SmoothcertError as SmoothcertError
from smoothcert.estimators.bounds import Bound as Bound
from smoothcert.fronts import Front as Front
from smoothcert.linear import LinearRegion as LinearRegion
from smoothcert.memory.memory import Memory as Memory
from smoothcert.models.adapters import adapt as adapt
from smoothcert.noise import Noise as Noise
from smoothcert.radius.bracket import certified_radius as certified_radius
from smoothcert.regions import Region as Region
from smoothcert.regressor import SmoothedRegressor as SmoothedRegressor
from smoothcert.report.runs import Run as Run
from smoothcert.run import certify_all as certify_all
from smoothcert.smoother import Smoother as Smoother
from smoothcert.smoother import Tuner as Tuner
from smoothcert.training.ancer import AncerMap as AncerMap
from smoothcert.tuners.ancer import Ancer as Ancer
from smoothcert.tuners.data_dependent import DataDependent as DataDependent
from smoothcert.tuners.hill_climb import HillClimb as HillClimb
from smoothcert.tuners.pattern import Pattern as Pattern
from smoothcert.tuners.reuse import Reuse as Reuse
from smoothcert.tuners.ucan import DatasetWise as DatasetWise
from smoothcert.tuners.ucan import PerInput as PerInput
from smoothcert.views import Ablation as Ablation
from smoothcert.views import Bands as Bands
from smoothcert.views import Blocks as Blocks
from smoothcert.views import Chunks as Chunks
from smoothcert.views import Splitting as Splitting
from smoothcert.votes import Votes as Votes

__version__: str
